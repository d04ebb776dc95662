# frozen_string_literal: true

# Three programs whose growth is known: `leak` keeps a part of what it makes, `fragment` keeps the same amount of memory in
# pieces that do not fit into each other's places, `plateau` keeps nothing. Each works in cycles of 50 ms until it is ended.

RANDOM = Random.new(7)

# Longer than what CRuby keeps in the slot itself (640 bytes from 3.3 on), so that malloc has it.
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
  # As many bytes all the time, in ever fewer and longer strings: the hole that a short one leaves is too short for them.
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
