# frozen_string_literal: true

# The file that Sidekiq loads: the database, the records and the jobs.
require "active_record"
require "json"
require "net/http"
require "securerandom"
require "sidekiq"
require "zlib"
require_relative "../lib/sqlite_patience"

ActiveRecord::Base.establish_connection("#{ENV.fetch('DATABASE_URL')}?pool=50")
ActiveRecord::Schema.verbose = false
ActiveRecord::Base.connection.execute("PRAGMA journal_mode = WAL")
ActiveRecord::Schema.define do
  create_table :documents, if_not_exists: true do |t|
    t.integer :source, :row_count, null: false
    t.binary :archive, null: false
    t.timestamps
  end
  create_table :rows, if_not_exists: true do |t|
    t.references :document, null: false
    t.string :name, null: false
    t.text :tags, :text, null: false
  end
end

class Row < ActiveRecord::Base
end

class Document < ActiveRecord::Base
  # The database must not grow through a long benchmark.
  KEPT = 200

  def self.forget_old
    old = where("id <= ?", maximum(:id).to_i - KEPT).ids
    Row.where(document_id: old).delete_all
    where(id: old).delete_all
  end
end

# Fetches a document, expands it like reports and exports do, and stores it. It mostly waits for I/O, during which other
# threads allocate.
class FetchJob
  include Sidekiq::Worker

  # Number of copies of a document in its report: a few KB up to a few MB.
  COPIES = (1..20).freeze

  def perform(number)
    rows = fetch(number)
    report = +""
    rand(COPIES).times { rows.each { |row| report << row.values.join(";") << ";" << SecureRandom.hex(8) << "\n" } }
    Document.transaction do
      document = Document.create!(source: number, row_count: rows.size, archive: Zlib.deflate(report, Zlib::BEST_SPEED))
      Row.insert_all!(rows.map { |row| row.slice("name", "text").merge("document_id" => document.id, "tags" => row["tags"].join(" ")) })
    end
    Document.forget_old
  end

  private

  def fetch(number)
    response = Net::HTTP.get_response("127.0.0.1", "/documents/#{number}", ENV.fetch("STUB_PORT"))
    response.value # raises on failure
    JSON.parse(response.body)
  end
end

# Rails reads the schema and defines methods at first use; here before threads can do so at the same time.
Document.transaction do
  Row.insert_all!([{ document_id: Document.create!(source: 0, row_count: 0, archive: "").id, name: "", tags: "", text: "" }])
  Document.forget_old
  raise ActiveRecord::Rollback
end

# Does nothing, to measure Sidekiq's own time.
class EmptyJob
  include Sidekiq::Worker

  def perform(*); end
end

Redis.silence_deprecations = true if defined?(Redis) && Redis.respond_to?(:silence_deprecations=) # Sidekiq 6 with redis 4.8

Sidekiq.configure_server do |config|
  config.logger.level = Logger::WARN
  config.on(:startup) { $stdout.puts "worker started" }
end
