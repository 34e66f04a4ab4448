package ap2

// IntentMandate describes what a user wants to buy. In AP2 0.1.0 it has neither an id nor a
// signature.
type IntentMandate struct {
	// UserCartConfirmationRequired means that the user must approve the cart. It must be true
	// because intents are not signed.
	UserCartConfirmationRequired bool `json:"user_cart_confirmation_required" wire:"required"`
	// NaturalLanguageDescription is the text that the user confirmed; not empty.
	NaturalLanguageDescription string `json:"natural_language_description" wire:"required"`
	// Merchants and SKUs limit the choice. Empty means any.
	Merchants []string `json:"merchants,omitempty"`
	SKUs      []string `json:"skus,omitempty"`
	// RequiresRefundability allows only refundable items; nil means false.
	RequiresRefundability *bool `json:"requires_refundability,omitempty"`
	// IntentExpiry is an ISO 8601 time; see [ParseTime].
	IntentExpiry string `json:"intent_expiry" wire:"required"`
}

// CartContents is a merchant's offer.
type CartContents struct {
	ID string `json:"id" wire:"required"` // unique for the merchant
	// UserCartConfirmationRequired means that the user must approve the cart.
	UserCartConfirmationRequired bool           `json:"user_cart_confirmation_required" wire:"required"`
	PaymentRequest               PaymentRequest `json:"payment_request" wire:"required"`
	// CartExpiry is the ISO 8601 time until which the price is valid.
	CartExpiry   string `json:"cart_expiry" wire:"required"`
	MerchantName string `json:"merchant_name" wire:"required"`
}

// CartMandate is an offer with the merchant's signature.
type CartMandate struct {
	Contents CartContents `json:"contents" wire:"required"`
	// MerchantAuthorization is a JWT in compact form over the hash of the contents. An offer
	// without one can be displayed but not paid.
	MerchantAuthorization string `json:"merchant_authorization,omitempty"`
}

// PaymentMandateContents is the content that a user authorizes.
type PaymentMandateContents struct {
	// PaymentMandateID is unique. A second payment with the same id is a replay.
	PaymentMandateID string `json:"payment_mandate_id" wire:"required"`
	// PaymentDetailsID is the id of the cart's PaymentDetailsInit.
	PaymentDetailsID string `json:"payment_details_id" wire:"required"`
	// PaymentDetailsTotal equals the total of the cart.
	PaymentDetailsTotal PaymentItem     `json:"payment_details_total" wire:"required"`
	PaymentResponse     PaymentResponse `json:"payment_response" wire:"required"`
	// MerchantAgent is the payee.
	MerchantAgent string `json:"merchant_agent" wire:"required"`
	// Timestamp is the ISO 8601 time of creation.
	Timestamp string `json:"timestamp" wire:"required"`
}

// PaymentMandate is a payment authorization with the user's proof.
type PaymentMandate struct {
	PaymentMandateContents PaymentMandateContents `json:"payment_mandate_contents" wire:"required"`
	// UserAuthorization is an SD-JWT with key binding. A mandate without one must not be paid.
	UserAuthorization string `json:"user_authorization,omitempty"`
}
