# Holds known things in known ways, and dumps its heap when it is asked.
require "objspace"
$stdout.sync = true

class Leak; def initialize(i); @i = i; @text = "leaked text number #{i} " * 4; end; end
class Cache; def initialize; @entries = {}; end; def fill; 2000.times { |i| @entries[i] = Leak.new(i) }; end; end
class Shop
  REGISTRY = Cache.new
  @@journal = Array.new(1500) { |i| Leak.new(i) }
end
Shop::REGISTRY.fill
class InThread; def initialize; @rows = Array.new(800) { |i| "row #{i} of a thread" * 3 }; end; end
class InClosure; def initialize; @rows = Array.new(700) { |i| "row #{i} of a closure" * 3 }; end; end
class InGlobal; def initialize; @rows = Array.new(600) { |i| "row #{i} of a global" * 3 }; end; end
class InFiber; def initialize; @rows = Array.new(500) { |i| "row #{i} of a fiber" * 3 }; end; end
class Garbage; def initialize(i); @text = "garbage number #{i} " * 4; end; end

Thread.current[:mine] = InThread.new
def closure; held = InClosure.new; -> { held }; end
CLOSURE = closure
$held = InGlobal.new
FIBER = Fiber.new { held = InFiber.new; Fiber.yield; held }
FIBER.resume
STRUCT = Struct.new(:a, :b, :c, :d, :e)
KEEP = Array.new(300) { |i| STRUCT.new(i, "b#{i}", [i], { i: i }, :e) }
MANY = (0...200).to_h { |i| ["key #{i}", [i.to_s] * 3] }
o = Object.new; o.instance_variable_set(:@a, "generic"); GENERIC = "a string with variables"; GENERIC.instance_variable_set(:@other, o)
PROCS = Array.new(400) { |i| held = [i.to_s]; -> { held } }
ENUMERATORS = Array.new(200) { |i| [i.to_s].each }
METHODS = Array.new(200) { |i| i.to_s.method(:size) }
MATCH = "2026-11-22".match(/(\d+)-(\d+)/)
def make_garbage; 3000.times { |i| Garbage.new(i) }; nil; end
def deeper(n); n.zero? ? make_garbage : deeper(n - 1); end

3.times { GC.start }
GC.disable
deeper(50)
puts "ready"
while (line = $stdin.gets)
  case line.chomp
  when /\Adump (.+)/
    File.open($1, "w") { |f| ObjectSpace.dump_all(output: f) }
    puts "dumped"
  when "collect"
    GC.enable
    3.times { GC.start }
    puts "collected"
  when "version" then puts RUBY_VERSION
  end
end
