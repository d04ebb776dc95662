# frozen_string_literal: true

require_relative "helper"

class FragmentTest < AppTest
  def test_a_burst_reports_its_work_and_stays_idle
    with_app("fragment", "burst", "--megabytes", "20", "--threads", "4", "--idle") { |app| assert_done(app, 20) }
  end

  def test_churn_reports_its_work_and_stays_idle
    with_app("fragment", "churn", "--requests", "50", "--threads", "4", "--idle") { |app| assert_done(app, 50) }
  end

  private

  def assert_done(app, units)
    done = words(app[:output], "done")
    assert_equal units, done[:units].to_i
    assert_operator done[:throughput].to_f, :>, 0
    assert_operator done[:p99_s].to_f, :>=, done[:p50_s].to_f
    assert_operator Dir.children("/proc/#{app[:pid]}/task").size, :>, 4, "the threads have ended"
  end
end
