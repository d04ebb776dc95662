# frozen_string_literal: true

require "json"

# Answers anycable-go's calls over HTTP with the application's Action Cable channels. The calls and their fields are those of AnyCable's
# protos/rpc.proto. Connections are not identified: everybody may connect, as in apps/cable.
class AnycableRpc
  SUCCESS = 1
  FAILURE = 2

  # The channel's connection during one call: it collects the actions that anycable-go then performs.
  class Connection
    attr_reader :streams, :transmissions

    def initialize
      @streams = []
      @transmissions = []
    end

    def identifiers = []
    def logger = ActionCable.server.logger
    def server = ActionCable.server
    def transmit(message) = @transmissions << JSON.generate(message)
  end

  # anycable-go manages the streams: it starts them on request and stops them by itself.
  module Streams
    def stream_from(broadcasting, *) = connection.streams << broadcasting

    def stop_all_streams; end
  end
  ApplicationCable::Channel.prepend(Streams)

  def call(env)
    request = JSON.parse(env["rack.input"].read)
    answer = case env["PATH_INFO"]
             when "/connect" then { status: SUCCESS, identifiers: "{}", transmissions: [JSON.generate(type: "welcome")] }
             when "/command" then command(request)
             when "/disconnect" then { status: SUCCESS }
             else return [404, {}, []]
             end
    [200, { "content-type" => "application/json" }, [JSON.generate(answer)]]
  end

  private

  def command(request)
    connection = Connection.new
    channel = channel(connection, request["identifier"]) or return { status: FAILURE }
    case request["command"]
    when "subscribe" then channel.subscribe_to_channel
    when "message" then channel.perform_action(JSON.parse(request["data"]))
    when "unsubscribe" then channel.unsubscribe_from_channel
    end
    { status: SUCCESS, streams: connection.streams, transmissions: connection.transmissions,
      stop_streams: request["command"] == "unsubscribe" }
  end

  def channel(connection, identifier)
    parameters = JSON.parse(identifier).with_indifferent_access
    kind = parameters[:channel].to_s.safe_constantize
    kind.new(connection, identifier, parameters) if kind.is_a?(Class) && kind < ActionCable::Channel::Base
  end
end
