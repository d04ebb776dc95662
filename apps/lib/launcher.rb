# frozen_string_literal: true

require "optparse"
require "shellwords"
require "socket"
require "tmpdir"

# Runs one application under test in the foreground and implements the start contract of apps/README.md: options, a scratch
# directory, auxiliary servers, the ready line, and an end that leaves nothing behind.
#
#   Launcher.run(__dir__) do |app|
#     app.redis
#     app.puma
#   end
class Launcher
  # Time limits in seconds for a process to get ready, and to end.
  READY_WITHIN = 60
  ENDED_WITHIN = 20
  # Open files per process, as far as the hard limit allows: every connection takes one, and many shells allow only 1,024.
  OPEN_FILES = 65_536

  # The application cannot run; the message is for the user.
  class Failure < StandardError; end

  attr_reader :environment, :options, :scratch

  # Parses the command line, runs the block with a scratch directory, and exits: 0 after a signal, 1 after a failure.
  def self.run(directory, **defaults, &) = new(directory, **defaults).run(&)

  def initialize(directory, **defaults)
    @directory = directory
    @name = File.basename(directory)
    @options = { port: 0, workers: 2, threads: 5, **defaults }
    @children = []
    @environment = { "RAILS_ENV" => "production", "RACK_ENV" => "production" }
  end

  def run
    parse
    Process.setrlimit(:NOFILE, [Process.getrlimit(:NOFILE).last, OPEN_FILES].min, Process.getrlimit(:NOFILE).last)
    Dir.mktmpdir("unbloat-#{@name}-") do |scratch|
      @scratch = scratch
      @environment["TMPDIR"] = scratch
      yield self
    ensure
      %w[TERM INT HUP].each { |signal| trap(signal, "IGNORE") }
      @children.reverse_each { |pid| stop(pid) }
    end
  rescue SignalException
    exit 0
  rescue Failure => e
    abort "apps/#{@name}: #{e.message}"
  end

  # Sets the environment of processes started from here on.
  def set(variables) = @environment.merge!(variables)

  # The words that run Ruby.
  def ruby(*words) = [ENV.fetch("RUBY", "ruby"), *words]

  # Runs a command to its end and returns its output.
  def prepare(*command)
    output, input = IO.pipe
    child = spawn(command, out: input)
    input.close
    printed = output.read
    Process.wait(child)
    raise Failure, "#{command.join(' ')} failed (#{$?.to_s.split.last(2).join(' ')})" unless $?.success?

    printed
  end

  # Starts an auxiliary process.
  def beside(*command) = @children.push(spawn(command, out: :err)).last

  # Starts a private Redis, on a socket in the scratch directory, or on a port (0 for a free one) for an application that is
  # used through it. Its address goes into REDIS_URL.
  def redis(port: nil)
    port = free_port if port&.zero?
    socket = File.join(scratch, "redis.sock")
    beside("redis-server", "--port", port.to_i.to_s, "--bind", "127.0.0.1", "--unixsocket", socket, "--dir", scratch,
           "--save", "", "--appendonly", "no", "--loglevel", "warning")
    wait_until("redis-server") { UNIXSocket.open(socket) { |s| s.write("PING\r\n") && s.gets == "+PONG\r\n" } }
    set("REDIS_URL" => port ? "redis://127.0.0.1:#{port}/0" : "unix://#{socket}")["REDIS_URL"]
  end

  # Returns an unused port.
  def free_port = TCPServer.open("127.0.0.1", 0) { |server| server.local_address.ip_port }

  # Starts Puma with the application's config/puma.rb. It is ready when its last worker is, and when the block, if given, has
  # returned true for a line of the log.
  def puma(port: options[:port], url: nil)
    set("PORT" => port.to_s, "WEB_CONCURRENCY" => options[:workers].to_s, "RAILS_MAX_THREADS" => options[:threads].to_s)
    missing = options[:workers]
    more = !block_given?
    serve(*ruby("-S", "puma", "-C", "config/puma.rb")) do |line|
      url ||= line[%r{Listening on (http://\S+)}, 1]
      missing -= 1 if line.match?(/Worker \d+ \(PID: \d+\) booted/)
      more ||= yield(line)
      "url=#{url}" if url && more && missing.zero?
    end
  end

  # Starts the server, with the words of UNBLOAT_WRAP in front, and waits for its end. The block receives each line of its
  # output until it returns the contents of the ready line.
  def serve(*command, &ready)
    output, input = IO.pipe
    server = spawn([*Shellwords.split(ENV.fetch("UNBLOAT_WRAP", "")), *command], out: input)
    @children << server
    input.close
    Thread.new { follow(output, server, &ready) }
    Process.wait(server)
    @children.delete(server)
    raise Failure, "#{command.join(' ')} ended by itself (#{$?.to_s.split.last(2).join(' ')})"
  end

  # Waits until the block returns true. Refused connections and missing files count as not ready yet.
  def wait_until(what)
    (READY_WITHIN * 50).times do
      return if begin
        yield
      rescue SystemCallError
        false
      end

      sleep 0.02
    end
    raise Failure, "#{what} is not ready after #{READY_WITHIN} s"
  end

  private

  def parse
    parser = OptionParser.new do |o|
      o.banner = "usage: apps/#{@name}/start [OPTION…]"
      o.on("--port N", Integer, "port on 127.0.0.1, 0 for a free one (#{options[:port]})") { |n| options[:port] = n }
      if options[:workers]
        o.on("--workers N", Integer, "processes (#{options[:workers]})") { |n| options[:workers] = n }
      end
      o.on("--threads N", Integer, "threads in each (#{options[:threads]})") { |n| options[:threads] = n }
    end
    rest = parser.parse(ARGV)
    abort "what is #{rest.first}?\n#{parser.help}" unless rest.empty?
  rescue OptionParser::ParseError => e
    abort "#{e.message}\n#{parser.help}"
  end

  # setpriv: if this process is killed, its children end, too.
  def spawn(command, **redirections)
    Process.spawn(@environment, "setpriv", "--pdeathsig", "TERM", "--", *command, chdir: @directory, **redirections)
  end

  # Forwards the server's log to stderr, and announces the server once the log says that it is ready.
  def follow(output, server)
    announced = false
    output.each_line do |line|
      warn line
      next if announced || !(words = yield(line))

      announced = true
      $stdout.puts "ready #{words} pid=#{server}"
      $stdout.flush
    end
  end

  def stop(pid)
    Process.kill("TERM", pid)
    (ENDED_WITHIN * 50).times { Process.wait(pid, Process::WNOHANG) ? return : sleep(0.02) }
    Process.kill("KILL", pid)
    Process.wait(pid)
  rescue Errno::ESRCH, Errno::ECHILD
    # It has already ended.
  end
end
