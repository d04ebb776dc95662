# frozen_string_literal: true

Rails.application.routes.draw do
  get "/up", to: ->(_env) { [200, { "content-type" => "text/plain" }, ["up\n"]] }
end
