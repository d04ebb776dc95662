# frozen_string_literal: true

# The channel that hashrocket/websocket-shootout and anycable/websocket-bench expect of an Action Cable server.
class BenchmarkChannel < ApplicationCable::Channel
  def subscribed
    stream_from "all"
  end

  def echo(data)
    transmit data
  end

  def broadcast(data)
    ActionCable.server.broadcast "all", data
    transmit data.merge("action" => "broadcastResult")
  end
end
