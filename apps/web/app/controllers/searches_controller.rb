# frozen_string_literal: true

class SearchesController < ApplicationController
  LIMIT = 100

  def show
    @words = params[:q].to_s.squish
    @products = Product.mentioning(@words).includes(:reviews).order(:name).limit(LIMIT)
  end
end
