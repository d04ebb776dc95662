# frozen_string_literal: true

instance_eval File.read(File.expand_path("../../cable/config/puma.rb", __dir__))

# anycable-go is a child of Puma's master: the tree below it is the whole server.
master = Process.pid
anycable = spawn({ "ANYCABLE_HOST" => "127.0.0.1", "ANYCABLE_BROADCAST_ADAPTER" => "redis", "ANYCABLE_LOG_LEVEL" => "info" },
                 "setpriv", "--pdeathsig", "TERM", "--", ENV.fetch("ANYCABLE_GO"), "--rpc_impl=http")
at_exit do
  if Process.pid == master
    Process.kill("TERM", anycable)
    Process.wait(anycable)
  end
rescue SystemCallError
  # It has already ended.
end
