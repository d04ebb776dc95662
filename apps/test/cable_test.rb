# frozen_string_literal: true

require_relative "helper"
require_relative "cable_client"

class CableTest < AppTest
  def test_a_broadcast_reaches_the_clients_of_every_worker
    with_app("cable", "--workers", "2") do |app|
      assert_broadcast(app[:url])
      assert_equal 2, children(app[:pid]).size
    end
  end

  def test_anycable_broadcasts_for_the_same_channel
    skip "there is no Go to build anycable-go with" unless system("apps/anycable/build >/dev/null", chdir: "#{APPS}/..")
    with_app("anycable", "--workers", "2") do |app|
      assert_broadcast(app[:url])
      assert_equal 3, children(app[:pid]).size
    end
  end

  def test_echo_with_the_async_adapter
    with_app("cable", "--workers", "1", environment: { "CABLE_ADAPTER" => "async" }) do |app|
      client = CableClient.new("#{app[:url].sub('http', 'ws')}/cable")
      client.perform("echo", payload: "hello")
      assert_equal "hello", client.receive("echo")["payload"]
    ensure
      client&.close
    end
  end

  def test_the_wrapper_is_in_front_of_the_server_only
    wrap = "env 'UNBLOAT_TEST=a b' nice -n 5"
    with_app("cable", "--workers", "1", environment: { "UNBLOAT_WRAP" => wrap }) do |app|
      launcher = stat(app[:pid]).fetch(1)
      niceness = children(launcher).to_h { |pid| [pid, stat(pid).fetch(16).to_i - stat(launcher).fetch(16).to_i] }
      assert_equal [0, 5], niceness.values.sort
      assert_equal 5, niceness[app[:pid].to_i]
    end
  end

  private

  def assert_broadcast(url)
    clients = Array.new(8) { CableClient.new("#{url.sub('http', 'ws')}/cable") }
    clients.first.perform("broadcast", payload: { sendTime: "1" })
    assert_equal({ "sendTime" => "1" }, clients.first.receive("broadcastResult")["payload"])
    clients.each { |client| assert_equal({ "sendTime" => "1" }, client.receive("broadcast")["payload"]) }
  ensure
    clients&.each(&:close)
  end

  def children(pid) = File.read("/proc/#{pid}/task/#{pid}/children").split.map(&:to_i)

  # The fields of /proc/PID/stat from the third on, the state.
  def stat(pid) = File.read("/proc/#{pid}/stat").rpartition(")").last.split
end
