# Leaks in a class variable, in a thread-local variable and in a closure, beside churn and a steady load.
class InClassVariable; def initialize(i); @i = i; @text = "kept in a class variable, number #{i} " * 3; end; end
class InThreadLocal; def initialize(i); @i = i; @text = "kept in a thread, number #{i} " * 3; end; end
class InClosure; def initialize(i); @i = i; @text = "kept in a closure, number #{i} " * 3; end; end
class Churn; def initialize(i); @i = i; @text = "gone at once, number #{i} " * 3; end; end
class Steady; def initialize(i); @i = i; @text = "from the start, number #{i} " * 3; end; end

class Shop
  @@journal = []
  def self.note(i); @@journal << InClassVariable.new(i); end
end
Thread.current[:seen] = []
def counter
  kept = []
  ->(i) { kept << InClosure.new(i) }
end
COUNT = counter
STEADY = Array.new(4000) { |i| Steady.new(i) }
i = 0
loop do
  20.times do
    i += 1
    Shop.note(i)
    Thread.current[:seen] << InThreadLocal.new(i)
    COUNT.call(i)
    4.times { Churn.new(i) }
  end
  GC.start if i % 2000 == 0
  sleep 0.05
end
