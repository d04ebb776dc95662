# frozen_string_literal: true

require "helper"

# Real clusters of Puma with the plugin.
module Cluster
  # Puma 4 writes "pid".
  BOOTED = /Worker (\d+) \(PID: (\d+)\) booted/i.freeze

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
      server.wait_for(BOOTED, workers)
      yield server
    end
  end

  # The version that `puma` starts.
  def puma_version
    Gem::Specification.find_all_by_name("puma").map(&:version).max
  end

  def workers(server)
    server.log.scan(BOOTED).to_h { |index, pid| [index.to_i, pid.to_i] }
  end

  def assert_lean(server)
    [server.pid, *workers(server).values].each do |pid|
      assert_includes server.maps(pid), "libunbloat-jemalloc.so", server.log
      assert_includes server.maps(pid), "libunbloat.so", server.log
    end
  end

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
