# frozen_string_literal: true

require "helper"

# Real clusters of Puma with the plugin.
class PumaTest < Minitest::Test
  APP = <<~RUBY
    LEAK = []
    CACHE = {}
    run lambda { |env|
      case env["PATH_INFO"]
      when "/pid" then [200, {}, [Process.pid.to_s]]
      when "/status" then [200, {}, [Unbloat.status.inspect]]
      when "/leak" then LEAK << ("x" * 500_000) if LEAK.size < 800
                          [200, {}, [Process.pid.to_s]]
      when "/cache" then [200, {}, [(CACHE[CACHE.size % 2400] ||= "x" * 50_000).size.to_s]]
      else [200, {}, ["hello"]]
      end
    }
  RUBY

  # Starts Puma with these lines in puma.rb, and waits for its workers.
  def with_puma(lines, workers: 2, command: %w[puma -C config/puma.rb], environment: {}, **options)
    port = Server.free_port
    config = "plugin :unbloat\nbind 'tcp://127.0.0.1:#{port}'\nworkers #{workers}\nthreads 2, 2\n#{lines}\n"
    files = { "config.ru" => APP, "config/puma.rb" => config }
    Server.open(command, files, environment: environment, port: port, **options) do |server|
      server.wait_for(/Worker \d+ \(PID: \d+\) booted/, workers)
      yield server
    end
  end

  def workers(server)
    server.log.scan(/Worker (\d+) \(PID: (\d+)\) booted/).to_h { |index, pid| [index.to_i, pid.to_i] }
  end

  def assert_lean(server)
    [server.pid, *workers(server).values].each do |pid|
      assert_includes server.maps(pid), "libunbloat-jemalloc.so", server.log
      assert_includes server.maps(pid), "libunbloat.so", server.log
    end
  end

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

  def test_a_hot_restart_keeps_policy_and_socket
    with_puma("") do |server|
      before = workers(server).values
      load = Load.during(server.port, threads: 1) do
        server.signal(:USR2)
        server.wait_for(/Worker \d+ \(PID: \d+\) booted/, 4)
      end
      assert_lean(server)
      assert_empty workers(server).values & before
      assert_no_failure(load)
    end
  end

  def test_a_phased_restart_keeps_policy_and_requests
    with_puma("") do |server|
      load = Load.during(server.port) do
        server.signal(:USR1)
        server.wait_for(/Worker \d+ \(PID: \d+\) booted in [\d.]+s, phase: 1/, 2)
      end
      assert_lean(server)
      assert_no_failure(load)
      assert_operator load.done, :>, 0
    end
  end

  def test_bundler_and_its_hot_restart
    with_bundle do |environment|
      with_puma("", command: %w[bundle exec puma -C config/puma.rb], environment: environment) do |server|
        assert_lean(server)
        server.signal(:USR2)
        server.wait_for(/Worker \d+ \(PID: \d+\) booted/, 4)
        assert_lean(server)
        refute_match(/not live/, server.log)
      end
    end
  end

  def test_sockets_of_systemd_are_kept
    port = Server.free_port
    config = "plugin :unbloat\nbind 'tcp://127.0.0.1:#{port}'\nworkers 2\n"
    handed = %w[GEM_HOME GEM_PATH RUBYLIB XDG_CACHE_HOME HOME].select { |name| ENV.key?(name) }
    command = ["systemd-socket-activate", "-l", "127.0.0.1:#{port}", *handed.flat_map { |name| ["-E", name] }, "puma", "-C", "config/puma.rb"]
    Server.open(command, { "config.ru" => APP, "config/puma.rb" => config }, port: port) do |server|
      server.wait_for(/Listening on/)
      # The first connection starts Puma.
      assert_equal "hello", server.get.body
      assert_lean(server)
      assert_match(/Activated|Inherited/, server.log)
    end
  end

  def test_a_refork_under_load_loses_no_request
    with_puma("fork_worker 0\nunbloat refork: :adaptive, refork_every: 1, look_every: 0.5") do |server|
      mold = workers(server)[0]
      load = Load.during(server.port, path: "/cache") do |running|
        server.wait_for(/Refork for about/)
        server.wait_for(/Worker 1 \(PID: \d+\) booted/, 2)
        server.wait_until("enough requests", within: 300) { running.done >= requests }
      end
      assert_no_failure(load)
      assert_equal mold, workers(server)[0], server.log
      assert_lean(server)
    end
  end

  def test_a_leak_that_crosses_the_limit_loses_no_request
    with_puma("unbloat limit: '80M', look_every: 0.3") do |server|
      load = Load.during(server.port, path: "/leak", threads: 2) do |running|
        server.wait_for(/Replaced when its requests are done/, 2)
        server.wait_for(/booted/, 4)
        server.wait_until("enough requests", within: 300) { running.done >= requests / 10 }
      end
      assert_no_failure(load)
      assert_match(/Released \d/, server.log)
      assert_lean(server)
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

  private

  def assert_no_failure(load)
    assert_empty load.failures
    assert_operator load.retried, :<=, 1 + (load.done / 100), "connections that were closed unread"
    puts "#{name}: #{load.done} requests, #{load.retried} sent again" if ENV["UNBLOAT_GEM_LONG"]
  end

  # The environment of a bundle with Puma and the gem.
  def with_bundle
    Dir.mktmpdir do |directory|
      File.write(File.join(directory, "Gemfile"), "gem 'puma'\ngem 'unbloat'\n")
      environment = { "BUNDLE_GEMFILE" => File.join(directory, "Gemfile"), "RUBYLIB" => nil }
      output, status = Open3.capture2e(environment, "bundle", "install", "--local", "--quiet")
      skip "Bundler has no gem of unbloat to install: run gem/run-tests" unless status.success?
      refute_match(/rror/, output)
      yield environment
    end
  end

  # Requests in a test under load: all of them in the long form.
  def requests
    ENV["UNBLOAT_GEM_LONG"] ? 10_000 : 500
  end
end
