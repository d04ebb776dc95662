# frozen_string_literal: true

Rails.application.routes.draw do
  root "products#index"
  resources :products, only: %i[index show] do
    resources :reviews, only: :create
  end
  resource :search, only: :show
  resource :session, only: %i[new create show destroy]
  resources :orders, only: %i[index show]
  resources :uploads, only: %i[new create show]
  get "/up", to: ->(_env) { [200, { "content-type" => "text/plain" }, ["up\n"]] }
end
