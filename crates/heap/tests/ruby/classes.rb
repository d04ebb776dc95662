# Makes objects of classes of many kinds, and says how many there are of each when it is asked.
require "objspace"
$stdout.sync = true

class Planted; end
module Shelf
  class Inner; end
  class Prepended; end
  module Extra; end
  Prepended.prepend(Extra)
end
class Text < String; end
class List < Array; end
class Table < Hash; end
class Wide
  def initialize(i)
    100.times { |n| instance_variable_set("@ivar_#{n}", i) }
  end
end
Row = Struct.new(*(1..100).map { |n| :"column_#{n}" })

ANONYMOUS = Array.new(5) { Class.new(Planted) }
KEEP = [
  Array.new(1234) { Planted.allocate },
  Array.new(77) { Shelf::Inner.new },
  Array.new(13) { Shelf::Prepended.new },
  ANONYMOUS.flat_map { |k| Array.new(11) { k.allocate } },
  Array.new(21) { o = Planted.allocate; def o.own; 1; end; o },
  Array.new(9) { Object.new.extend(Shelf::Extra) },
  Array.new(90) { Mutex.new },
  Array.new(2000) { |i| Text.new.tap { |t| 20.times { t << "a text of its own, number #{i} " } } },
  Array.new(2000) { |i| List.new(100, i) },
  Array.new(2000) { |i| Table.new.merge!((0...20).to_h { |n| [n, i] }) },
  Array.new(2000) { |i| Wide.new(i) },
  Array.new(2000) { |i| Row.new(*(1..100)) },
]
KIND = Kernel.instance_method(:class)
NAME = Module.instance_method(:name)
SINGLETON = Module.instance_method(:singleton_class?)
COUNTS = {}.compare_by_identity

def count
  GC.start
  COUNTS.each_key { |k| COUNTS[k] = 0 }
  ObjectSpace.each_object(BasicObject) do |o|
    k = KIND.bind_call(o)
    next if k == Class && SINGLETON.bind_call(o)
    COUNTS[k] = (COUNTS[k] || 0) + 1
  end
end

3.times { GC.start }
puts "ready"
while (line = gets)
  case line.chomp
  when "counts"
    # The first counts make what later ones use again.
    3.times { count }
    GC.disable
    names = Hash.new(0)
    COUNTS.each { |k, n| names[NAME.bind_call(k) || "anonymous"] += n }
    puts names.map { |name, n| "#{name}=#{n}" }.join(" ")
  when "sizes"
    puts [Text, List, Table, Wide, Row].map { |k| "#{k}=#{ObjectSpace.memsize_of_all(k)}" }.join(" ")
  when "version"
    puts RUBY_VERSION
  end
end
