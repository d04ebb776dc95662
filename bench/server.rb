# frozen_string_literal: true

# An application under test as the benchmarks start it, and figures over its process tree: bench/lean, bench/lean-anatomy.

# The processes below `pid`, itself included.
def tree(pid)
  parents = Dir["/proc/[0-9]*/stat"].filter_map do |stat|
    [stat[/\d+/].to_i, File.read(stat)[/\) . (\d+)/, 1].to_i]
  rescue SystemCallError
    nil
  end
  children = parents.group_by(&:last)
  below = ->(parent) { [parent, *children.fetch(parent, []).flat_map { |child, _| below.call(child) }] }
  below.call(pid)
end

# Sums a figure over a process tree. If a process ends meanwhile, the sum starts over.
def sum(pid)
  tree(pid).sum { |process| yield "/proc/#{process}" }
rescue SystemCallError
  retry
end

def pss(pid) = sum(pid) { |process| File.read("#{process}/smaps_rollup")[/^Pss:\s+(\d+)/, 1].to_i } / 1024.0

def cpu(pid) = sum(pid) { |process| File.read("#{process}/stat").split(") ").last.split[11, 2].sum(&:to_i) } / 100.0

# An application with the start contract of apps/README.md.
class Server
  attr_reader :pid, :url

  def self.start(words, wrap)
    server = new(words, wrap)
    yield server
  ensure
    server&.stop
  end

  def initialize(words, wrap)
    @output, input = IO.pipe
    @launcher = Process.spawn({ "UNBLOAT_WRAP" => wrap }, *words, out: input, err: ENV.fetch("SERVER_LOG", File::NULL))
    input.close
    ready = line("ready")
    @pid = ready["pid"].to_i
    @url = ready["url"]
  end

  # Returns the fields of the next line that starts with a word.
  def line(word)
    while (text = @output.gets)
      return text.scan(/(\w+)=(\S+)/).to_h if text.start_with?(word)
    end
    abort "the application ended before it said #{word}"
  end

  def stop
    Process.kill("TERM", @launcher)
    Process.wait(@launcher)
  end
end
