# frozen_string_literal: true

require "rails/generators"
require "unbloat/rails/edit"

module Unbloat
  # Rails finds generators by this name and their path.
  module Generators
    # `rails g unbloat:install` shows what it would change and asks; `rails destroy unbloat:install` takes it out again.
    class InstallGenerator < ::Rails::Generators::Base
      desc "Starts the servers of this application lean: edits config/puma.rb, Dockerfile and Procfile"
      class_option :yes, type: :boolean, default: false, desc: "Do not ask"

      # Shows the differences, asks, and writes; backwards for `rails destroy`.
      def edit
        edits = Unbloat::Rails::Edit.in(destination_root, undo: behavior == :revoke)
        return say("unbloat: there is nothing to change") if edits.empty?

        edits.each { |edit| say(edit.difference) }
        return unless options[:yes] || yes?("Change #{edits.map(&:file).join(', ')}? [y/N]")

        edits.each { |edit| File.write(File.join(destination_root, edit.file), edit.after) } unless options[:pretend]
      end
    end
  end
end
