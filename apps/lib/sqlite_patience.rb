# frozen_string_literal: true

# SQLite has one writer at a time. Before version 8, Rails makes SQLite itself wait for it (busy_timeout) with Ruby's global
# lock held, so the writing thread cannot finish, and all wait in vain. A handler in Ruby sleeps without the lock.
module SqlitePatience
  PAUSE = 0.002 # seconds
  ATTEMPTS = 10_000

  def configure_connection
    super
    (@raw_connection || @connection).busy_handler do |attempt|
      sleep PAUSE
      attempt < ATTEMPTS
    end
  end
end

require "active_record/connection_adapters/sqlite3_adapter"
ActiveRecord::ConnectionAdapters::SQLite3Adapter.prepend(SqlitePatience)
