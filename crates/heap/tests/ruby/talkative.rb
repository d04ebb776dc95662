# Prints its heap statistics on request.
$stdout.sync = true
keep = Array.new(20_000) { |i| ["some string that is too long to be embedded #{i}", i.to_s, { i => i }] }
junk = Array.new(50_000) { |i| "junk #{i}" * 3 }
junk = nil
stat, counts = {}, {}
GC.start
puts "ready"
while (line = gets)
  case line.chomp
  when "stat"
    GC.stat(stat)
    puts stat.map { |k, v| "#{k}=#{v}" }.join(" ")
  when "counts"
    GC.start
    ObjectSpace.count_objects(counts)
    puts counts.map { |k, v| "#{k}=#{v}" }.join(" ")
  when "version"
    puts RUBY_VERSION
  end
end
