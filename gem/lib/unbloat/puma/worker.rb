# frozen_string_literal: true

module Unbloat
  module Puma
    # The limit in a worker of a cluster, or in a Puma without workers.
    module Worker
      class << self
        # Called by Puma as a worker boots.
        #
        # @param index [Integer]
        # @param options [Options]
        def start(index, options)
          wishes = Master.wishes or return
          wish = ->(name) { ->(pss) { wishes.write("#{name} #{Process.pid} #{pss}\n") } }
          ask = { replace: wish.call(:replace) }
          # The mold of a refork keeps what it has.
          ask[:refork] = wish.call(:refork) if options.refork && index.to_i.positive?
          keep(options, ask, ->(line) { $stdout.puts(line) })
        rescue StandardError => e
          warn "unbloat: no limit in worker #{index}: #{e.message}"
        end

        # A Puma without workers: nobody could replace it, so it only gives memory back.
        #
        # @param options [Options]
        # @param log [#call]
        def alone(options, log)
          keep(options, {}, log)&.thread_variable_set(:fork_safe, true)
        end

        # Servers without a thread are leftovers of the process that this one was forked from. Puma's `Server#stats` is not asked: since
        # Puma 7 that begins its maxima anew, which belong to whoever reads `Puma.stats`.
        #
        # @return [Boolean] true if no server here is inside of a request and no request waits
        def idle?
          servers = ObjectSpace.each_object(::Puma::Server).select { |server| server.thread&.alive? }
          !servers.empty? && servers.all? { |server| server.backlog.to_i.zero? && server.pool_capacity == server.max_threads }
        end

        private

        def keep(options, ask, log)
          Keeper.new(limit: options.limit, every: options.look_every, pressure: options.pressure, idle: method(:idle?), ask: ask, log: log).start
        end
      end
    end
  end
end
