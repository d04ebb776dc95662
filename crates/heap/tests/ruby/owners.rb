# Creates objects with much malloc memory and prints Ruby's own count of it for each type.
require "objspace"
$stdout.sync = true

class Wide
  def initialize(i)
    100.times { |n| instance_variable_set("@ivar_#{n}", i) }
  end
end
Row = Struct.new(*(1..100).map { |n| :"column_#{n}" })

KEEP = {
  String: Array.new(20_000) { |i| "a string with its text in malloc memory, number #{i} " * 15 },
  Array: Array.new(5_000) { |i| Array.new(100, i) },
  Hash: Array.new(5_000) { |i| (0...20).to_h { |n| [n, i] } },
  Object: Array.new(5_000) { |i| Wide.new(i) },
  Struct: Array.new(5_000) { |i| Row.new(*(1..100)) },
  Bignum: Array.new(2_000) { |i| 7**(3000 + i % 10) },
}
SIZES = KEEP.map { |type, objects| "#{type}=#{objects.sum { |o| ObjectSpace.memsize_of(o) }}" }.join(" ")

TAILS = KEEP[:String].first(5_000).map { |s| s[40..-1] } # share the text of the others
SMALL = Array.new(5_000) { |i| (0...5).to_h { |n| [n, i] } }
MATCHES = Array.new(2_000) { |i| "2026-11-21 #{i}".match(/(\d+)-(\d+)-(\d+) (\d+)/) }
CLASSES = Array.new(300) { |i| Class.new { 30.times { |n| define_method("method_#{n}") { n } } } }
3.times { GC.start }

puts "ready"
puts SIZES while gets
