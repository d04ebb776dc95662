# Holds strings of known lengths, encodings and contents, and says which are equal when it is asked.
require "objspace"
$stdout.sync = true

class Label < String; end
LABELS = [
  Array.new(500) { |i| Label.new.force_encoding("UTF-8") << "l #{i}" },
  Array.new(300) { |i| Label.new.force_encoding("UTF-8") << "a label of its own #{i} " * 40 },
  Array.new(7) { |i| Label.new.force_encoding("UTF-8") << "large #{i} " << "x" * 99_992 },
]

# A new string each time, whose memory is its own.
def copy(text)
  String.new(capacity: 200) << text
end

class Shop
  def initialize(text)
    @currency = text
  end
end
module Catalog
  TABLE = Array.new(1500) { { name: [Object.send(:copy, "the name of a product in a catalog, which is not embedded " * 3)] } }
end
SHOPS = Array.new(2000) { Shop.new(copy("the currency of a shop, which each of them has on its own " * 2)) }
WAITING = "a text that waits for a collection and that nothing holds " * 4
def make_garbage; 1000.times { copy(WAITING) }; nil; end
def deeper(n); n.zero? ? make_garbage : deeper(n - 1); end

# Equal bytes in three encodings, which are not the same text.
TEXT = "\xA4\xA2" * 20_000
MIXED = [Encoding::UTF_8, Encoding::BINARY, Encoding::EUC_JP].flat_map do |encoding|
  Array.new(2) { copy(TEXT).force_encoding(encoding) }
end

3.times { GC.start }
GC.disable
deeper(50)
puts "ready"
while (line = $stdin.gets)
  case line.chomp
  when "version" then puts RUBY_VERSION
  when "copies"
    counts = Hash.new(0)
    ObjectSpace.each_object(String) { |s| counts[[s.hash, s.encoding]] += 1 if s.bytesize > 100 }
    puts counts.each_value.sum { |n| n - 1 }
  end
end
