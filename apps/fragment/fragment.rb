# frozen_string_literal: true

# Leaves memory behind as Ruby servers do, in a few seconds and without a gem:
#
#   burst   threads build many strings at once, keep a few of them, scattered, and fall idle
#   churn   threads answer requests and share a cache whose entries live for random times
#
# Prints "ready pid=…" before the work and "done units=… throughput=… p50_s=…" after it. The amount of work is fixed and the
# random numbers are seeded, so throughput and memory can be compared between two runs.

require "json"
require "optparse"

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

# String sizes as in a web application: mostly short, some of a few KB.
def string_size(random) = 24 + (random.rand**3 * 4000).to_i

# All threads fill their lists in parallel; then one string in thirty is kept, and each of those pins its page.
class Burst
  attr_reader :units

  def initialize(options)
    @units = options[:megabytes]
    @keep = options[:keep]
    @kept = Queue.new
  end

  # One unit is a megabyte of strings.
  def perform(random, units)
    strings = []
    units.times do
      yield lambda {
        bytes = 0
        while bytes < 1 << 20
          strings << "z" * string_size(random)
          bytes += strings.last.bytesize
        end
      }
      sleep 0.001 # simulates waiting for the database while other threads work
    end
    @kept << strings.select { random.rand < @keep }
    strings.clear # from Ruby 3.3 on, a stale word on this thread's stack may keep the list itself alive
  end

  # A server with traffic runs a full collection sooner or later. Here it runs at once.
  def finish = 3.times { GC.start }
end

# Each request allocates a few hundred KB of garbage and some strings that stay in the cache for a while.
class Churn
  CACHE_ENTRIES = 30_000
  CACHED_BY_A_REQUEST = 20
  REQUESTS_PER_LARGE_STRING = 7

  attr_reader :units

  def initialize(options)
    @units = options[:requests]
    @cache = {}
    @lock = Mutex.new
    random = Random.new(options[:seed])
    @document = JSON.generate(Array.new(120) do |id|
      { id: id, name: "user#{id}" * 3, tags: %w[a b c dd eee] * 2, body: "x" * random.rand(20..420) }
    end)
  end

  # One unit is a request.
  def perform(random, units)
    units.times do |n|
      yield -> { request(random, n) }
      sleep 0.0005 if (n % 5).zero? # simulates waiting for a slow client
    end
  end

  def finish; end

  private

  def request(random, number)
    page = +""
    JSON.parse(@document).each { |user| page << user["name"] << user["body"] * random.rand(1..3) }
    page << "y" * random.rand(200_000) if (number % REQUESTS_PER_LARGE_STRING).zero?
    @lock.synchronize do
      CACHED_BY_A_REQUEST.times { @cache[random.rand(CACHE_ENTRIES)] = "v" * string_size(random) }
    end
    page.bytesize
  end
end

WORK = { "burst" => Burst, "churn" => Churn }.freeze
DEFAULTS = { threads: 16, megabytes: 480, keep: 0.03, requests: 8000, seed: 1, idle: 0 }.freeze

def parse(arguments)
  options = DEFAULTS.dup
  parser = OptionParser.new do |o|
    o.banner = "usage: apps/fragment/start burst|churn [OPTION…]"
    o.on("--threads N", Integer, "threads that work (#{options[:threads]})") { |n| options[:threads] = n }
    o.on("--megabytes N", Integer, "burst: strings built (#{options[:megabytes]})") { |n| options[:megabytes] = n }
    o.on("--keep SHARE", Float, "burst: strings kept (#{options[:keep]})") { |share| options[:keep] = share }
    o.on("--requests N", Integer, "churn: requests answered (#{options[:requests]})") { |n| options[:requests] = n }
    o.on("--seed N", Integer, "of the random numbers (#{options[:seed]})") { |n| options[:seed] = n }
    o.on("--idle [SECONDS]", Float, "stay idle afterwards; without a number until SIGTERM") do |seconds|
      options[:idle] = seconds
    end
  end
  rest = parser.parse(arguments)
  abort parser.help unless rest.size == 1 && WORK.key?(rest.first) && options[:threads].positive?
  [WORK.fetch(rest.first), options]
rescue OptionParser::ParseError => e
  abort "#{e.message}\n#{parser.help}"
end

# Runs the work on threads that stay alive afterwards, like a server's. Returns the duration of each unit in seconds.
def run(work, options)
  times = Queue.new
  threads = Array.new(options[:threads]) do |index|
    share = work.units / options[:threads] + (index < work.units % options[:threads] ? 1 : 0)
    Thread.new do
      durations = []
      work.perform(Random.new(options[:seed] + index), share) do |unit|
        started = now
        unit.call
        durations << now - started
      end
      times << durations
      sleep
    end
  end
  threads.flat_map { times.pop }
end

def quantile(sorted, share) = sorted.fetch([(sorted.size * share).ceil - 1, 0].max, 0.0)

kind, options = parse(ARGV)
trap("TERM") { exit! 0 }
$stdout.sync = true
work = kind.new(options)
puts "ready pid=#{Process.pid}"
started = now
durations = run(work, options).sort
seconds = now - started
work.finish
puts format("done units=%<units>d seconds=%<seconds>.3f throughput=%<throughput>.1f p50_s=%<p50>.6f p95_s=%<p95>.6f p99_s=%<p99>.6f",
            units: durations.size, seconds: seconds, throughput: durations.size / seconds,
            p50: quantile(durations, 0.5), p95: quantile(durations, 0.95), p99: quantile(durations, 0.99))
options[:idle] ? sleep(options[:idle]) : sleep
