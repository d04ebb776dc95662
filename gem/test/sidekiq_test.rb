# frozen_string_literal: true

require "helper"

# A real Sidekiq with a Redis of its own.
class SidekiqTest < Minitest::Test
  WORKER = <<~'RUBY'
    require "sidekiq"
    require "unbloat/sidekiq"
    Redis.silence_deprecations = true if defined?(Redis) && Redis.respond_to?(:silence_deprecations=)
    url = { url: ENV.fetch("REDIS_URL") }
    Sidekiq.configure_client { |config| config.redis = url }
    Sidekiq.configure_server do |config|
      config.redis = url
      Unbloat::Sidekiq.attach(config, **eval(ENV.fetch("SETTINGS")))
    end
    LEAK = []
    class Leak
      include Sidekiq::Worker
      def perform(number, bytes)
        LEAK << "x" * bytes
        File.write(File.join(ENV.fetch("DONE"), number.to_s), Process.pid.to_s)
      end
    end
  RUBY

  def with_sidekiq(settings)
    Dir.mktmpdir do |directory|
      port = Server.free_port
      redis = Process.spawn("redis-server", "--port", port.to_s, "--bind", "127.0.0.1", "--save", "", "--dir", directory, out: File::NULL)
      done = File.join(directory, "done")
      Dir.mkdir(done)
      environment = { "REDIS_URL" => "redis://127.0.0.1:#{port}/0", "SETTINGS" => settings, "DONE" => done }
      begin
        Server.open(%w[sidekiq -c 2 -r ./worker.rb], { "worker.rb" => WORKER }, environment: environment) do |server|
          server.wait_for(/See LICENSE/)
          yield server, environment, done
        end
      ensure
        Process.kill(:TERM, redis)
        Process.wait(redis)
      end
    end
  end

  def push(server, environment, jobs, bytes)
    code = "require './worker'; #{jobs.inspect}.each { |number| Leak.perform_async(number, #{bytes}) }"
    _, status = Open3.capture2e(environment, "ruby", "-e", code, chdir: server.directory)
    assert status.success?
  end

  def test_a_process_is_lean_and_logs_its_jobs
    with_sidekiq("{ log_jobs: true, collect_every: 0.5 }") do |server, environment, done|
      assert_includes server.maps, "libunbloat-jemalloc.so", server.log
      push(server, environment, (1..5).to_a, 4_000_000)
      server.wait_until("the jobs") { Dir.children(done).size == 5 }
      server.wait_for(/unbloat: Leak JID-\h+ resident \+\d+\.\d MiB, \d+ objects/, 5)
    end
  end

  def test_a_limit_ends_the_process_when_its_jobs_are_done
    with_sidekiq("{ limit: '100M', look_every: 0.3 }") do |server, environment, done|
      push(server, environment, (1..40).to_a, 4_000_000)
      server.wait_for(/Quiet, and ends when its jobs are done/)
      Timeout.timeout(60) { sleep 0.1 until server.ended? }
      # A supervisor starts another; what was not done is still in Redis.
      File.write(File.join(server.directory, "rest.rb"), "require './worker'; require 'sidekiq/api'; puts %(left=\#{Sidekiq::Queue.new.size})")
      rest, = Open3.capture2(environment, "ruby", "rest.rb", chdir: server.directory)
      assert_equal 40, rest[/^left=(\d+)/, 1].to_i + Dir.children(done).size, server.log
      assert_match(/A full collection while idle|Released/, server.log)
    end
  end

  def test_a_wrong_setting_stops_the_boot_with_its_line
    Dir.mktmpdir do |directory|
      File.write(File.join(directory, "worker.rb"), WORKER)
      environment = { "REDIS_URL" => "redis://127.0.0.1:1", "SETTINGS" => "{ limit: 'much' }" }
      output, status = Open3.capture2e(environment, "timeout", "60", "sidekiq", "-r", "./worker.rb", chdir: directory)
      refute status.success?
      assert_match(/unbloat: limit: is a size .*\n.*worker.rb:8$/, output)
    end
  end
end
