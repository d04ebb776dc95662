# frozen_string_literal: true

class SessionsController < ApplicationController
  before_action :require_login, only: :show

  def show; end

  def new; end

  def create
    user = User.find_by(email: params[:email])
    return redirect_to new_session_path, alert: "Wrong email or password." unless user&.authenticate(params[:password])

    reset_session
    session[:user_id] = user.id
    redirect_to root_path, notice: "Welcome, #{user.name}."
  end

  def destroy
    reset_session
    redirect_to root_path
  end
end
