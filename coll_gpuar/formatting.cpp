// fmt's own code, compiled here once: the component needs no library more, and what formats a text
// compiles in half the time that it takes with all of fmt in its header.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;
#if FMT_VERSION < 110000  // since then it is no template
template void vformat_to<char>(buffer<char>&, string_view, format_args, locale_ref);
#endif

}  // namespace detail
FMT_END_NAMESPACE
