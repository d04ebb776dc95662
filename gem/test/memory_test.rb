# frozen_string_literal: true

require "puma_helper"

# Clusters whose workers un-share, leak and come under pressure.
class MemoryTest < Minitest::Test
  include Cluster

  def test_a_refork_under_load_loses_no_request
    skip "Puma #{puma_version} has no fork_worker" if puma_version < Gem::Version.new("5")
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

  def test_a_recording_marks_the_steps
    with_puma("unbloat limit: '80M', look_every: 0.5") do |server|
      file = File.join(server.directory, "steps.unbloat")
      recorder = Process.spawn(Unbloat::Native.cli, "record", "--quiet", "--pid", server.pid.to_s, "--census", "0.2s", "--budget", "50%", "--output", file)
      begin
        server.wait_until("a recording") { File.exist?(file) }
        wanted = [/\Agem: release \(PID \d+\)\z/, /\Agem: replace \(PID #{server.pid}\)\z/]
        Load.during(server.port, path: "/leak", threads: 1) do
          server.wait_until("a mark for each step", within: 300) { wanted.all? { |mark| marks(file).any?(mark) } }
        end
      ensure
        Process.kill(:INT, recorder)
        Process.wait(recorder)
      end
    end
  end

  # The kernel's file is one of ours, for this server alone.
  def test_pressure_gives_memory_back_once_for_each_rise
    file = Unbloat::Linux.pressure_file
    skip "#{file} cannot be covered: that needs root" unless File.exist?(file) && system("unshare", "--mount", "true", err: File::NULL)
    Dir.mktmpdir do |directory|
      ours = File.join(directory, "pressure")
      # At once, and of one length: the plugin never sees half of it.
      say = ->(percent) { IO.binwrite(ours, format("some avg10=%05.2f avg60=0.00 avg300=0.00 total=1\n", percent), 0) }
      say.call(0)
      cover = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
      command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", cover, "sh", ours, file, "puma", "-C", "config/puma.rb"]
      with_puma("unbloat limit: '1G', look_every: 0.1", workers: 1, command: command) do |server|
        given_back = /takes part in memory pressure \((35|48)\.0 % of ten seconds\)\. (Released|A full collection while idle; returned) \d/
        say.call(35)
        server.wait_for(given_back)
        sleep 1
        assert_equal 1, server.log.scan(given_back).size, "it lasts, and is no other one"
        server.wait_until("the next rise") do
          [0, 48].each { |percent| say.call(percent) && sleep(0.5) }
          server.log.scan(given_back).size > 1
        end
      end
    end
  end

  private

  def marks(file)
    output, status = Open3.capture2(Unbloat::Native.cli, "show", "--json", file)
    status.success? ? JSON.parse(output).fetch("marks").map { |mark| mark["name"] } : []
  end
end
