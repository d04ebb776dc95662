# frozen_string_literal: true

workers ENV.fetch("WEB_CONCURRENCY", 2)
threads ENV.fetch("RAILS_MAX_THREADS", 5), ENV.fetch("RAILS_MAX_THREADS", 5)
bind "tcp://127.0.0.1:#{ENV.fetch('PORT', 3000)}"
environment "production"
preload_app!
