# frozen_string_literal: true

# Three programs with known growth: `leak` keeps a part of its allocations, `fragment` keeps a constant amount of memory in
# pieces that do not fit into each other's holes, `plateau` keeps nothing. Each works in cycles of 50 ms until it is ended.

RANDOM = Random.new(7)

# Longer than strings embedded in a slot (640 bytes from 3.3 on), so that it is allocated by malloc.
def string(most) = "x" * RANDOM.rand(700..most)

def cycle
  loop do
    yield
    sleep 0.05
  end
end

case ARGV.fetch(0)
when "leak"
  kept = []
  cycle do
    400.times { |n| s = string(4000); kept << s if (n % 8).zero? }
  end
when "fragment"
  # A constant number of bytes in ever fewer and longer strings, which do not fit into the holes left by shorter ones.
  kept = Array.new(60_000) { "x" * 700 }
  over = 0
  cycle do
    30.times do
      kept << "x" * 2600
      over += 2600
      while over.positive?
        at = RANDOM.rand(kept.size)
        over -= kept[at].bytesize
        last = kept.pop
        kept[at] = last if at < kept.size
      end
    end
    GC.start if RANDOM.rand < 0.05
  end
when "plateau"
  kept = Array.new(10_000) { string(4000) }
  cycle { 400.times { string(4000) } }
  kept.clear
end
