# frozen_string_literal: true

require_relative "helper"
require "json"
require "redis"
require "securerandom"
require "sqlite3"

class JobsTest < AppTest
  JOBS = 12

  def test_jobs_are_fetched_done_and_stored
    with_app("jobs", "--threads", "4") do |app|
      redis = Redis.new(url: app[:url])
      JOBS.times { |number| redis.lpush("queue:default", job(number)) }
      wait_until { redis.llen("queue:default").zero? && documents.size == JOBS }
      assert_equal (0...JOBS).to_a, documents.sort
      assert_equal 0, redis.zcard("retry")
    ensure
      redis&.close
    end
  end

  private

  def job(number)
    JSON.generate(class: "FetchJob", args: [number], jid: SecureRandom.hex(12), queue: "default", retry: true,
                  created_at: Time.now.to_f, enqueued_at: Time.now.to_f)
  end

  # Returns the documents in the database.
  def documents
    file = Dir.glob(File.join(temporary, "*", "jobs.sqlite3")).first
    SQLite3::Database.new(file) { |database| return database.execute("SELECT source FROM documents").flatten }
  rescue SQLite3::BusyException
    []
  end

  def wait_until
    (READY_WITHIN * 20).times { yield ? return : sleep(0.05) }
    flunk "not within #{READY_WITHIN} s"
  end
end
