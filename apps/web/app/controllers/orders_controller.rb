# frozen_string_literal: true

class OrdersController < ApplicationController
  before_action :require_login

  # Every order of the shop with its items: the one heavy page that every application has.
  def index
    @orders = Order.includes(:user, line_items: :product).order(created_at: :desc).limit(300)
  end

  def show
    @order = Order.includes(line_items: :product).find(params[:id])
  end
end
