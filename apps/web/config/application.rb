# frozen_string_literal: true

require "csv"
require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "action_view/railtie"
require "tmpdir"

# A shop, with the middleware, cache and log of a Rails application in production.
class WebApplication < Rails::Application
  config.root = File.expand_path("..", __dir__)
  config.load_defaults Rails::VERSION::STRING.to_f
  config.eager_load = true
  config.secret_key_base = "not a secret: this application is only ever started to be measured"
  config.cache_store = :memory_store
  config.action_controller.perform_caching = true
  config.active_record.dump_schema_after_migration = false
  config.log_level = :info
  config.logger = ActiveSupport::TaggedLogging.new(ActiveSupport::Logger.new(File.join(Dir.tmpdir, "production.log")))
  config.log_tags = [:request_id]
end
