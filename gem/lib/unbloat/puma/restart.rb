# frozen_string_literal: true

module Unbloat
  module Puma
    # Puma's own way of starting itself again, for a master that has bound nothing yet.
    module Restart
      # The command and the descriptors for exec. Puma has read the variables of inherited sockets and removed them; they are put back.
      #
      # @param launcher [Puma::Launcher]
      # @return [Array(Array<String>, Hash), nil]
      def self.of(launcher)
        inherited = held(launcher.binder, :inherited_fds)
        activated = held(launcher.binder, :activated_sockets).values
        inherited.each_with_index { |(url, fd), index| ENV["PUMA_INHERIT_#{index}"] = "#{fd}:#{url}" }
        ENV.update("LISTEN_FDS" => activated.size.to_s, "LISTEN_PID" => Process.pid.to_s) unless activated.empty?
        Dir.chdir(launcher.restart_dir)
        descriptors = (inherited.values + activated.map(&:fileno)).to_h { |fd| [fd, fd] }
        [launcher.restart_args, descriptors]
      end

      # Puma 4 has no readers for them.
      def self.held(binder, name)
        binder.respond_to?(name) ? binder.public_send(name) : binder.instance_variable_get("@#{name}")
      end
      private_class_method :held
    end
  end
end
