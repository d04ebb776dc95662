# frozen_string_literal: true

require "puma/plugin"
require "unbloat"
require "unbloat/puma"

# `plugin :unbloat` in `config/puma.rb`; its settings are {Unbloat::Puma::DSL#unbloat}.
Puma::Plugin.create do
  def start(launcher)
    Unbloat::Puma.start(launcher)
  end
end
