# frozen_string_literal: true

require "puma_helper"

# Puma's own restarts, by signal, by pumactl, with Bundler and with systemd's sockets: the policy stays.
class RestartTest < Minitest::Test
  include Cluster

  def test_a_hot_restart_keeps_policy_and_socket
    with_puma("") do |server|
      before = workers(server).values
      load = Load.during(server.port, threads: 1) do
        server.signal(:USR2)
        server.wait_for(BOOTED, 4)
      end
      assert_lean(server)
      assert_empty workers(server).values & before
      assert_no_failure(load)
    end
  end

  def test_a_phased_restart_keeps_policy_and_requests
    # Puma 7 preloads by itself, and then restarts in no phases.
    with_puma("preload_app! false") do |server|
      load = Load.during(server.port) do
        server.signal(:USR1)
        server.wait_for(/#{BOOTED}.*phase: 1$/, 2)
      end
      assert_lean(server)
      assert_no_failure(load)
      assert_operator load.done, :>, 0
    end
  end

  def test_pumactl_restarts_and_stops
    control = Server.free_port
    with_puma("preload_app! false\nstate_path 'state'\nactivate_control_app 'tcp://127.0.0.1:#{control}', { no_token: true }") do |server|
      pumactl(server, "phased-restart")
      server.wait_for(/#{BOOTED}.*phase: 1$/, 2)
      assert_lean(server)
      pumactl(server, "restart")
      server.wait_for(BOOTED, 6)
      assert_lean(server)
      pumactl(server, "stop")
      Timeout.timeout(Server::READY_WITHIN) { sleep 0.05 until server.ended? }
    end
  end

  def test_bundler_and_its_hot_restart
    with_bundle do |environment|
      with_puma("", command: %w[bundle exec puma -C config/puma.rb], environment: environment) do |server|
        assert_lean(server)
        server.signal(:USR2)
        server.wait_for(BOOTED, 4)
        assert_lean(server)
        refute_match(/not live/, server.log)
      end
    end
  end

  def test_a_pruned_bundler_loads_the_plugin
    puma = Gem::Specification.find_all_by_name("puma").max_by(&:version)
    wild = puma.full_require_paths.any? { |path| File.exist?(File.join(path, "../bin/puma-wild")) }
    skip "Puma #{puma.version} has no puma-wild here (Debian leaves it out): nothing can be pruned" unless wild
    with_bundle do |environment|
      with_puma("preload_app! false\nprune_bundler", command: %w[bundle exec puma -C config/puma.rb], environment: environment) do |server|
        assert_match(/Pruning Bundler environment/, server.log)
        assert_lean(server)
        server.signal(:USR1)
        server.wait_for(/#{BOOTED}.*phase: 1$/, 2)
        assert_lean(server)
        server.signal(:USR2)
        server.wait_for(BOOTED, 6)
        assert_lean(server)
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
      server.wait_for(BOOTED, 2)
      server.signal(:USR2)
      server.wait_for(BOOTED, 4)
      assert_equal "hello", server.get.body
      assert_lean(server)
    end
  end

  private

  def pumactl(server, command)
    output, status = Open3.capture2e("pumactl", "-S", "state", command, chdir: server.directory)
    assert status.success?, "pumactl #{command}: #{output}\n#{server.log}"
  end
end
