# frozen_string_literal: true

require "puma_helper"

# Real clusters of Puma with the plugin.
class PumaTest < Minitest::Test
  include Cluster

  def test_a_cluster_becomes_lean_by_one_line
    with_puma("") do |server|
      assert_lean(server)
      assert_match(/:live=>true|live: true/, server.get("/status").body)
      # Once: the banner of the second start alone.
      assert_equal 1, server.log.scan("Puma starting").size, server.log
    end
  end

  def test_a_preloaded_cluster_becomes_lean
    with_puma("preload_app!") { |server| assert_lean(server) }
  end

  def test_a_single_process_becomes_lean
    port = Server.free_port
    files = { "config.ru" => APP, "config/puma.rb" => "plugin :unbloat\nunbloat limit: '30M', look_every: 0.2\nport #{port}, '127.0.0.1'\n" }
    Server.open(%w[puma -C config/puma.rb], files, port: port) do |server|
      server.wait_for(/Use Ctrl-C to stop/)
      assert_includes server.maps, "libunbloat-jemalloc.so", server.log
      # Nobody could replace it: its memory is all that it gives.
      40.times { server.get("/leak") }
      server.wait_for(/takes [\d.]+ MiB of 30M. A full collection while idle/)
      assert_equal "hello", server.get.body
    end
  end

  def test_below_unbloat_run_nothing_is_started_again
    command = [Unbloat::Native.cli, "run", "--policy", "arenas=1,trim=adaptive", "--", "puma", "-C", "config/puma.rb"]
    with_puma("", command: command) do |server|
      refute_includes server.maps, "libunbloat-jemalloc.so"
      assert_match(/started below `unbloat run --policy arenas=1,trim=adaptive`/, server.log)
    end
  end

  def test_switched_off_it_starts_nothing
    with_puma("", environment: { "UNBLOAT" => "0" }) do |server|
      refute_includes server.maps, "libunbloat"
      assert_match(/switched off by UNBLOAT=0/, server.get("/status").body)
    end
  end

  def test_a_policy_without_a_preload_is_loaded_in_place
    with_puma("unbloat policy: 'trim=adaptive'") do |server|
      assert_includes server.maps, "libunbloat.so", server.log
      refute_includes server.maps, "libunbloat-jemalloc.so"
      assert_match(/trim=adaptive/, server.get("/status").body)
    end
  end

  def test_stats_have_the_workers_memory
    control = Server.free_port
    with_puma("activate_control_app 'tcp://127.0.0.1:#{control}', { no_token: true }\nunbloat limit: '1G'") do |server|
      figures = JSON.parse(Net::HTTP.get(URI("http://127.0.0.1:#{control}/stats"))).fetch("unbloat")
      assert_equal workers(server).values.sort, figures["workers"].map { |worker| worker["pid"] }.sort
      assert(figures["workers"].all? { |worker| worker["pss_bytes"] > 1_000_000 }, figures.inspect)
      assert_equal [true, 1 << 30], figures.values_at("live", "limit_bytes")
    end
  end

  def test_wrong_settings_stop_the_boot_with_one_line
    {
      "unbloat policy: 'thin'" => "thin", "unbloat limit: 'much'" => 'not "much"', "unbloat refork: :often" => ":often",
      "unbloat limits: '1G'" => "there is no setting limits", "unbloat refork: :adaptive" => "needs fork_worker", "unbloat pressure: 0" => "pressure"
    }.each do |line, cause|
      Dir.mktmpdir do |directory|
        Dir.mkdir(File.join(directory, "config"))
        File.write(File.join(directory, "config.ru"), APP)
        File.write(File.join(directory, "config/puma.rb"), "plugin :unbloat\nworkers 2\nbind 'tcp://127.0.0.1:0'\n#{line}\n")
        output, status = Open3.capture2e("timeout", "60", "puma", "-C", "config/puma.rb", chdir: directory)
        refute status.success?, line
        complaint = output.lines.grep_v(/^(\[\d+\]|Puma|\*)/)
        assert_equal 1, complaint.size, output
        assert_match(%r{config/puma.rb:4: unbloat: .*#{Regexp.escape(cause)}}, complaint.first)
      end
    end
  end
end
