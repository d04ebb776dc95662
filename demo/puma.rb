# frozen_string_literal: true

workers 2
threads 8, 8
preload_app!
bind "unix://#{ENV.fetch('DEMO_SOCKET')}"
silence_single_worker_warning if respond_to?(:silence_single_worker_warning)
