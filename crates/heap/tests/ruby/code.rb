# Loads a gem with many methods and a file of an application, and says what it knows of them.
require "objspace"
require "fileutils"
$stdout.sync = true

root = ARGV.fetch(0)
gem = File.join(root, "gems", "planted-1.2.3", "lib")
app = File.join(root, "shop")
FileUtils.mkdir_p([gem, app])
File.write(File.join(gem, "planted.rb"), "module Planted\n" + (0...2000).map { |i| "  def self.m_#{i}(a, b)\n    [a + b, a * #{i}, b.to_s].join(a.to_s)\n  end\n" }.join + "end\n")
File.write(File.join(app, "model.rb"), "class Model\n" + (0...50).map { |i| "  def m_#{i}; #{i}; end\n" }.join + "end\n")
require File.join(gem, "planted.rb")
require File.join(app, "model.rb")
Dir.chdir(app)
Planted.methods(false).each { |m| Planted.send(m, 1, 2) }
METHODS = Planted.methods(false).map { |m| Planted.method(m) }
SIZES = METHODS.sum { |m| ObjectSpace.memsize_of(RubyVM::InstructionSequence.of(m)) - 40 }
COUNTS = {}
reader, writer = IO.pipe
3.times { GC.start }
child = fork do
  writer.close
  $stdin.close
  reader.read
  exit!(0)
end
reader.close
Process.detach(child)
puts "ready"
while (line = $stdin.gets)
  case line.chomp
  when "child" then puts child
  when "sequences"
    GC.start
    puts "all=#{ObjectSpace.count_imemo_objects(COUNTS)[:imemo_iseq]} methods=#{METHODS.size} bytes=#{SIZES}"
  end
end
