# frozen_string_literal: true

class ProductsController < ApplicationController
  def index
    products = params[:category] ? Product.where(category: params[:category]) : Product.all
    @products = products.includes(:reviews).page(params[:page])
    respond_to do |format|
      format.html
      format.json { render json: @products }
      format.csv { send_data products.to_csv, filename: "products.csv" }
      format.atom
    end
  end

  def show
    @product = Product.includes(reviews: :user).find(params[:id])
    respond_to do |format|
      format.html
      format.json { render json: @product }
    end
  end
end
