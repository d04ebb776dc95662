# frozen_string_literal: true

require "json"
require "socket"
require "uri"
require "websocket/driver"

# One Action Cable connection for tests, subscribed to BenchmarkChannel.
class CableClient
  PATIENCE = 20
  IDENTIFIER = JSON.generate(channel: "BenchmarkChannel")

  attr_reader :url

  def initialize(url)
    @url = url
    uri = URI(url)
    @socket = TCPSocket.new(uri.host, uri.port)
    @messages = []
    @driver = WebSocket::Driver.client(self, protocols: ["actioncable-v1-json"])
    @driver.on(:message) { |event| @messages << JSON.parse(event.data) }
    @driver.start
    wait { |message| message["type"] == "welcome" }
    send_command("subscribe")
    wait { |message| message["type"] == "confirm_subscription" }
  end

  def perform(action, **data)
    send_command("message", data: JSON.generate(action: action, **data))
  end

  # Returns the channel's next message with this action.
  def receive(action)
    wait { |message| message.dig("message", "action") == action if message["message"].is_a?(Hash) }["message"]
  end

  # Used by websocket-driver for writing.
  def write(bytes) = @socket.write(bytes)

  def close = @socket.close

  private

  def send_command(command, **more)
    @driver.text(JSON.generate(command: command, identifier: IDENTIFIER, **more))
  end

  # Reads until a message matches, and returns it. The server's pings do not extend the time limit.
  def wait(&fits)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
    until (index = @messages.index(&fits))
      left = deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
      (left.positive? && @socket.wait_readable(left)) or raise "nothing fitting within #{PATIENCE} s, only #{@messages}"
      @driver.parse(@socket.readpartial(1 << 16))
    end
    @messages.delete_at(index)
  end
end
