# frozen_string_literal: true

require "rails"
require "action_controller/railtie"
require "action_cable/engine"

# Action Cable as set up by `rails new`, with the benchmark's channel and without the parts that the benchmark does not use.
class CableApplication < Rails::Application
  config.root = File.expand_path("..", __dir__)
  config.load_defaults Rails::VERSION::STRING.to_f
  config.eager_load = true
  config.secret_key_base = "not a secret: this application is only ever started to be measured"
  config.logger = ActiveSupport::Logger.new($stderr)
  # Rails overrides the logger's level with this one. At :debug, the default, Action Cable logs every delivery.
  config.log_level = :warn
  config.action_cable.mount_path = "/cable"
  config.action_cable.disable_request_forgery_protection = true
end
