# frozen_string_literal: true

namespace :unbloat do
  # The running server of this application, or every Puma.
  server = lambda do
    pid = Rails.root.join("tmp/pids/server.pid")
    pid.exist? ? [pid.read.strip] : %w[--name puma]
  end

  desc "Show where every resident byte of the server is"
  task :inspect do
    exec Unbloat::Native.cli, "inspect", *server.call if Unbloat::Native.here?
    abort "unbloat: #{Unbloat::Native.reason}"
  end

  desc "Check the machine, the server, the Dockerfile and config/puma.rb, with the lines that mend what is found"
  task :doctor do
    require "unbloat/rails/doctor"
    pid = server.call.first
    system(Unbloat::Native.cli, "doctor", *(pid.match?(/\A\d+\z/) ? [pid] : [])) if Unbloat::Native.here?
    puts Unbloat::Rails::Doctor.new(Rails.root.to_s).lines
  end
end
