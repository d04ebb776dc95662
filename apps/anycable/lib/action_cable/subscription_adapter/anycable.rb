# frozen_string_literal: true

require "redis"

module ActionCable
  module SubscriptionAdapter
    # Passes broadcasts to anycable-go, which knows the subscribers.
    class Anycable < Base
      CHANNEL = "__anycable__"

      def broadcast(stream, payload)
        @mutex ||= Mutex.new
        message = JSON.generate(stream: stream, data: payload)
        @mutex.synchronize { (@redis ||= Redis.new(url: ENV.fetch("REDIS_URL"))).publish(CHANNEL, message) }
      end

      def shutdown = @redis&.close
    end
  end
end
