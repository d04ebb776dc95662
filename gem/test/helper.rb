# frozen_string_literal: true

require "minitest/autorun"
require "json"
require "net/http"
require "open3"
require "socket"
require "timeout"
require "tmpdir"
require "unbloat"

# A server under test in a directory of its own; everything of it ends with the block.
class Server
  READY_WITHIN = 60

  attr_reader :directory, :pid, :port

  # @param files [Hash{String => String}] names and contents
  def self.open(command, files, environment: {}, **options)
    Dir.mktmpdir("unbloat-gem-test-") do |directory|
      files.each do |name, text|
        path = File.join(directory, name)
        FileUtils.mkdir_p(File.dirname(path))
        File.write(path, text)
        File.chmod(0o755, path) if text.start_with?("#!")
      end
      server = new(directory, command, environment, options)
      begin
        yield server
      ensure
        server.stop
      end
    end
  end

  def self.free_port
    TCPServer.open("127.0.0.1", 0) { |server| server.local_address.ip_port }
  end

  def initialize(directory, command, environment, options)
    @directory = directory
    @port = options.delete(:port)
    @log = File.join(directory, "log")
    options = { chdir: directory, out: @log, err: [:child, :out], pgroup: true }.merge(options)
    @pid = Process.spawn({ "PWD" => directory, **environment }, *command, **options)
  end

  def log
    File.read(@log)
  end

  # Waits until the log says something so many times.
  def wait_for(pattern, times = 1, within: READY_WITHIN)
    wait_until("#{pattern.inspect} in the log", within: within) { log.scan(pattern).size >= times }
  end

  def wait_until(what, within: READY_WITHIN)
    Timeout.timeout(within) do
      until (found = yield)
        raise "the server has ended: #{log}" if ended?

        sleep 0.05
      end
      found
    end
  rescue Timeout::Error
    raise "not in #{within} s: #{what}\n#{log}"
  end

  def ended?
    !Process.wait(@pid, Process::WNOHANG).nil?
  rescue Errno::ECHILD
    true
  end

  def get(path = "/")
    Net::HTTP.get_response(URI("http://127.0.0.1:#{port}#{path}"))
  end

  def signal(name)
    Process.kill(name, pid)
  end

  # What a process has mapped.
  def maps(pid = @pid)
    File.read("/proc/#{pid}/maps")
  end

  def stop
    Process.kill(:TERM, pid)
    200.times { ended? ? break : sleep(0.05) }
    Process.kill(:KILL, -pid)
  rescue Errno::ESRCH
    # All of it has ended.
  end
end

# Requests from several threads until the block is done; each failure is kept.
#
# A worker of Puma that ends closes connections of which it has read nothing yet (`Server#reactor_wakeup`, `Client#can_close?` of 5.6 and 6.6). Browsers and
# proxies then send the request again (RFC 9110, section 9.2.2), and so does this, once; those are counted apart.
class Load
  attr_reader :done, :failures, :retried

  def initialize(port, threads: 4, path: "/")
    @port = port
    @path = path
    @done = @retried = 0
    @failures = []
    @mutex = Mutex.new
    @running = true
    @threads = Array.new(threads) { Thread.new { work } }
  end

  def self.during(port, **options)
    load = new(port, **options)
    yield load
    load
  ensure
    load.finish
  end

  def finish
    @running = false
    @threads.each(&:join)
  end

  private

  def work
    while @running
      answer = request
      again = answer.empty?
      answer = request if again
      @mutex.synchronize do
        @retried += 1 if again
        answer.start_with?("HTTP/1.1 200") ? @done += 1 : @failures << answer[0, 60]
      end
    end
  end

  # The answer; empty where the connection was closed without a byte of it.
  def request
    socket = TCPSocket.new("127.0.0.1", @port)
    socket.write("GET #{@path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    socket.read
  rescue Errno::ECONNRESET, Errno::EPIPE
    ""
  rescue SystemCallError => e
    e.message
  ensure
    socket&.close
  end
end
