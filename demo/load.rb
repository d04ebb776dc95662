# frozen_string_literal: true

# Sends requests to a Unix socket from several threads for some seconds.
# usage: ruby load.rb SOCKET THREADS SECONDS

require 'socket'

socket = ARGV.fetch(0)
threads = Integer(ARGV.fetch(1))
deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + Float(ARGV.fetch(2))

answered = Array.new(threads) do
  Thread.new do
    count = 0
    while Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
      UNIXSocket.open(socket) do |connection|
        connection.write("GET / HTTP/1.1\r\nHost: demo\r\nConnection: close\r\n\r\n")
        raise "the server answered #{connection.gets.inspect}" unless connection.read.include?('200 OK')
      end
      count += 1
    end
    count
  end
end
puts "#{answered.sum(&:value)} requests answered"
