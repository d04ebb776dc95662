# frozen_string_literal: true

require "helper"

# A small Rails application with the Railtie and the generator.
class RailsTest < Minitest::Test
  FILES = {
    "bin/rails" => <<~RUBY,
      #!/usr/bin/env ruby
      APP_PATH = File.expand_path('../config/application', __dir__)
      require_relative '../config/boot'
      require 'rails/commands'
    RUBY
    "config/boot.rb" => "",
    "config/application.rb" => <<~RUBY,
      require 'rails'
      require 'action_controller/railtie'
      require 'unbloat'
      class App < Rails::Application
        config.eager_load = false
        config.secret_key_base = 'x' * 32
      end
    RUBY
    "config/environment.rb" => "require_relative 'application'\nRails.application.initialize!\n",
    "config/puma.rb" => "threads 2, 2\nworkers 2\n",
    "config.ru" => "require_relative 'config/environment'\nrun Rails.application\n",
    "Rakefile" => "require_relative 'config/application'\nRails.application.load_tasks\n",
    "Dockerfile" => "FROM ruby:3.3-slim\nCMD [\"./bin/rails\", \"server\"]\n"
  }.freeze

  def with_application
    Dir.mktmpdir do |directory|
      FILES.each do |file, text|
        path = File.join(directory, file)
        FileUtils.mkdir_p(File.dirname(path))
        File.write(path, text)
      end
      yield directory
    end
  end

  def rails(directory, *words, input: "")
    output, status = Open3.capture2e({ "RAILS_ENV" => "production" }, "ruby", "bin/rails", *words, chdir: directory, stdin_data: input)
    [output, status]
  end

  def test_the_generator_shows_asks_and_is_undone
    with_application do |directory|
      read = -> { FILES.keys.to_h { |file| [file, File.read(File.join(directory, file))] } }
      before = read.call
      output, = rails(directory, "generate", "unbloat:install", input: "n\n")
      assert_includes output, "+plugin :unbloat"
      assert_equal before, read.call, "it was refused"
      rails(directory, "generate", "unbloat:install", "--yes")
      assert_includes read.call["config/puma.rb"], "plugin :unbloat"
      assert_includes read.call["Dockerfile"], '"unbloat", "run", "--"'
      rails(directory, "destroy", "unbloat:install", "--yes")
      assert_equal before, read.call
    end
  end

  def test_the_doctor_names_the_line
    with_application do |directory|
      output, = rails(directory, "unbloat:doctor")
      assert_match(%r{config/puma.rb: Puma is not started lean\n +→ plugin :unbloat}, output)
      assert_match(/^\w+ +kernel/, output)
    end
  end

  def test_bin_rails_server_becomes_lean
    port = Server.free_port
    files = FILES.merge("config/puma.rb" => "plugin :unbloat\nthreads 2, 2\nworkers 2\nport #{port}, '127.0.0.1'\n")
    command = ["ruby", "bin/rails", "server", "-p", port.to_s, "-b", "127.0.0.1"]
    Server.open(command, files, port: port, environment: { "RAILS_ENV" => "production" }) do |server|
      server.wait_for(/Worker \d+ \(PID: \d+\) booted/i, 2)
      assert_includes server.maps, "libunbloat-jemalloc.so", server.log
    end
  end
end
