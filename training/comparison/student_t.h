// Student's t distribution, for intervals of means over few seeds.
#pragma once

namespace packtrain {

// P(T <= t) with `degrees` >= 1 degrees of freedom. By the regularized incomplete beta function
// (NIST Digital Library of Mathematical Functions 8.17), within 1e-12.
double student_t_probability(double t, double degrees);

// The t with student_t_probability(t, degrees) = p; 0.5 <= p < 1.
double student_t_quantile(double p, double degrees);

}  // namespace packtrain
