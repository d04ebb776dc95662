# frozen_string_literal: true

require "helper"

class LimitTest < Minitest::Test
  MIB = 1 << 20

  def step(limit, pss, idle: true, now: 0)
    limit.step(pss: pss * MIB, idle: idle, now: now)
  end

  def test_sizes_are_read
    assert_equal 400 * MIB, Unbloat::Limit::Size.new("400M").bytes
    assert_equal 400 * MIB, Unbloat::Limit::Size.new("400MiB").bytes
    assert_equal (1.5 * 1024 * MIB).to_i, Unbloat::Limit::Size.new("1.5g").bytes
    assert_equal 7, Unbloat::Limit::Size.new(7).bytes
    assert_equal 250, Unbloat::Limit::Size.new(0.25).bytes(1000)
    assert_equal 250, Unbloat::Limit::Size.new("25%").bytes(1000)
    assert_nil Unbloat::Limit::Size.new("25%").bytes(nil)
  end

  def test_what_is_no_size_is_refused
    ["much", "", 0, -1, 0.0, 1.5, "120%", "0M", [], "4 apples"].each do |wrong|
      error = assert_raises(ArgumentError, wrong.inspect) { Unbloat::Limit::Size.new(wrong) }
      assert_includes error.message, wrong.inspect
    end
  end

  def test_each_step_comes_only_where_the_one_before_was_not_enough
    limit = Unbloat::Limit.new(100 * MIB, refork: true, patience: 60)
    assert_nil step(limit, 99)
    assert_equal :release, step(limit, 101)
    assert_equal :collect, step(limit, 101, now: 10)
    assert_equal :refork, step(limit, 101, now: 20)
    assert_nil step(limit, 101, now: 30), "a refork is given time"
    assert_equal :replace, step(limit, 101, now: 90)
    assert_nil step(limit, 101, now: 100)
    # Nobody has replaced it: from the start again.
    assert_nil step(limit, 101, now: 160)
    assert_equal :release, step(limit, 101, now: 170)
  end

  def test_what_has_helped_ends_the_steps
    limit = Unbloat::Limit.new(100 * MIB)
    assert_equal :release, step(limit, 120)
    assert_nil step(limit, 97, now: 10), "a little below is not yet the end"
    assert_equal :collect, step(limit, 120, now: 20)
    assert_nil step(limit, 90, now: 30)
    assert_equal :release, step(limit, 120, now: 40)
  end

  def test_a_busy_process_is_replaced_without_a_collection
    limit = Unbloat::Limit.new(100 * MIB, patience: 60)
    assert_equal :release, step(limit, 120, idle: false)
    assert_nil step(limit, 120, idle: false, now: 59)
    assert_equal :replace, step(limit, 120, idle: false, now: 61)
  end

  def test_where_nobody_replaces_a_process_memory_is_all_that_is_given_back
    limit = Unbloat::Limit.new(100 * MIB, replace: false, patience: 60)
    steps = (0..12).map { |look| step(limit, 120, now: look * 10) }
    assert_equal %i[release collect release collect], steps.compact
  end
end
