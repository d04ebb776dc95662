# frozen_string_literal: true

require "unbloat/puma/options"
require "unbloat/puma/dsl"
require "unbloat/puma/log"
require "unbloat/puma/restart"
require "unbloat/puma/census"
require "unbloat/puma/master"
require "unbloat/puma/worker"
require "unbloat/puma/stats"

module Unbloat
  # The Puma plugin. Settings are checked where they are written; from then on nothing that goes wrong here reaches a worker.
  module Puma
    # Puma's entry: in the master, before the application is loaded and before sockets are bound. Does not return where Puma starts again.
    #
    # @param launcher [Puma::Launcher]
    # @raise [ConfigurationError] for settings that make no sense together
    def self.start(launcher)
      options = launcher.options[:unbloat] || Options.new
      options.check(launcher.options)
      log = Log.new(launcher)
      guarded(log) { forget_mark(launcher.events) }
      live = boot(options, launcher, log)
      guarded(log) { watch(launcher, options, log, live) }
    end

    # Puma goes on without what does not work here.
    def self.guarded(log)
      yield
    rescue StandardError => e
      log.call("unbloat: #{e.class}: #{e.message}")
    end

    def self.watch(launcher, options, log, live)
      master = Master.new(launcher, options, log, Stats.plain(launcher))
      Stats.install(launcher, -> { master.figures.merge(live: live) })
      master.run
      Worker.alone(options, log) if options.limit && !master.cluster?
    end

    # Bundler and Puma put an earlier environment back before a hot restart. The event has another name since Puma 7, and Puma 4 has none.
    def self.forget_mark(events)
      name = %i[before_restart on_restart].find { |event| events.respond_to?(event) }
      events.public_send(name) { ENV.delete(Boot::MARK) } if name
    end

    def self.boot(options, launcher, log)
      Boot.new(options.policy, restart: -> { Restart.of(launcher) }, log: log).call
    rescue ConfigurationError => e
      raise ConfigurationError.at(options.place, "unbloat: #{e.message}"), cause: nil
    end
    private_class_method :boot, :guarded, :watch, :forget_mark
  end
end
