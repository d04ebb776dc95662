# frozen_string_literal: true

require "rails/railtie"

module Unbloat
  # `rails unbloat:inspect` and `rails unbloat:doctor`. `rails g unbloat:install` is found by its path.
  class Railtie < ::Rails::Railtie
    rake_tasks { load File.expand_path("../tasks/unbloat.rake", __dir__) }
  end
end
