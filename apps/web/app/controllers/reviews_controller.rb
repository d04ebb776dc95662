# frozen_string_literal: true

class ReviewsController < ApplicationController
  before_action :require_login

  def create
    product = Product.find(params[:product_id])
    review = product.reviews.new(params.require(:review).permit(:rating, :body).merge(user: current_user))
    notice = review.save ? "Thank you." : review.errors.full_messages.to_sentence
    redirect_to product_path(product), notice: notice
  end
end
