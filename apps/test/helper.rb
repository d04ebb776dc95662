# frozen_string_literal: true

require "minitest/autorun"
require "net/http"
require "tmpdir"

# Starts an application like a user would, and verifies that it leaves nothing behind.
class AppTest < Minitest::Test
  APPS = File.expand_path("..", __dir__)
  READY_WITHIN = 90

  # Returns the parent of the application's scratch directory.
  attr_reader :temporary

  # Starts apps/NAME/start, yields the contents of its ready line, stops it, and checks how it ended.
  def with_app(name, *arguments, environment: {})
    Dir.mktmpdir("unbloat-app-test-") do |scratch|
      log = File.join(scratch, "log")
      Dir.mkdir(@temporary = File.join(scratch, "tmp"))
      output, input = IO.pipe
      pid = Process.spawn({ "TMPDIR" => temporary, **environment }, File.join(APPS, name, "start"), *arguments,
                          out: input, err: log, pgroup: true)
      input.close
      begin
        yield words(output, "ready", log).merge(output: output)
        Process.kill("TERM", pid)
        assert_equal 0, Process.wait2(pid).last.exitstatus, File.read(log)
        assert_empty group(pid), "processes are left"
        assert_empty Dir.children(temporary), "files are left"
      ensure
        kill_group(pid)
      end
    end
  end

  # Returns the words of the next line, which must start with this prefix.
  def words(output, start, log = File::NULL)
    line = output.gets if output.wait_readable(READY_WITHIN)
    assert line&.start_with?("#{start} "), "not a line of #{start} but #{line.inspect}: #{File.read(log)}"
    line.scan(/(\w+)=(\S+)/).to_h.transform_keys(&:to_sym)
  end

  private

  # Returns the processes of a group, except zombies.
  def group(leader)
    Dir.glob("/proc/[0-9]*/stat").filter_map do |file|
      state, _parent, group = File.read(file).rpartition(")").last.split
      file[/\d+/].to_i if group.to_i == leader && state != "Z"
    rescue SystemCallError
      nil
    end
  end

  def kill_group(leader)
    Process.kill("KILL", -leader) unless group(leader).empty?
  rescue Errno::ESRCH
    # It has already ended.
  end
end
